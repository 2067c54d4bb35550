import { Empty } from "../../components/Empty";
import { PageHead } from "../../components/PageHead";

export default function Run() {
  return (
    <>
      <PageHead title="Run" />
      <Empty title="This page is not built yet." command="oncue runs list" />
    </>
  );
}
