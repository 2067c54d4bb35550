import { Empty } from "../../components/Empty";
import { PageHead } from "../../components/PageHead";

export default function Admin() {
  return (
    <>
      <PageHead title="Admin" />
      <Empty title="This page is not built yet." command="oncue keys list" />
    </>
  );
}
