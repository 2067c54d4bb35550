import { Empty } from "../../components/Empty";
import { PageHead } from "../../components/PageHead";

export default function Overview() {
  return (
    <>
      <PageHead title="Overview" />
      <Empty title="This page is not built yet." command="oncue top" />
    </>
  );
}
