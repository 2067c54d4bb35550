import { Empty } from "../../components/Empty";
import { PageHead } from "../../components/PageHead";

export default function Failures() {
  return (
    <>
      <PageHead title="Failures" />
      <Empty title="This page is not built yet." command="oncue dead list" />
    </>
  );
}
