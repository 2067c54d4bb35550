import { Empty } from "../../components/Empty";
import { PageHead } from "../../components/PageHead";

export default function Queues() {
  return (
    <>
      <PageHead title="Queues & workers" />
      <Empty title="This page is not built yet." command="oncue queues list" />
    </>
  );
}
