import { Empty } from "../../components/Empty";
import { PageHead } from "../../components/PageHead";

export default function Runs() {
  return (
    <>
      <PageHead title="Runs" />
      <Empty title="This page is not built yet." command="oncue runs list" />
    </>
  );
}
