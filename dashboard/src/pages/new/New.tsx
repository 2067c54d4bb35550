import { Empty } from "../../components/Empty";
import { PageHead } from "../../components/PageHead";

export default function New() {
  return (
    <>
      <PageHead title="New job" />
      <Empty title="This page is not built yet." command="oncue jobs create --task hello" />
    </>
  );
}
