import { Empty } from "../../components/Empty";
import { PageHead } from "../../components/PageHead";

export default function Upcoming() {
  return (
    <>
      <PageHead title="Upcoming" />
      <Empty title="This page is not built yet." command="oncue upcoming" />
    </>
  );
}
