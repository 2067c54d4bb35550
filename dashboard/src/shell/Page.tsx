import { effect } from "@preact/signals";
import { Component, type ComponentChildren, type ComponentType } from "preact";
import { useEffect, useState } from "preact/hooks";
import { Button } from "../components/Button";
import { Empty } from "../components/Empty";
import { liveState } from "../live";
import { pageOf, type PageSpec, type Params } from "../pages/pages";
import { path } from "../router";

type Shown = { page: PageSpec; Body: ComponentType<{ params: Params }> } | { page: PageSpec; failure: true };

/** The page of the present path. What goes wrong in it stays in it. */
export function Page() {
  const found = pageOf(path.value);
  const [shown, setShown] = useState<Shown | null>(null);
  useEffect(() => {
    const page = found?.page;
    if (!page || shown?.page.load === page.load) return;
    let isOver = false;
    page.load().then(
      (loaded) => isOver || setShown({ page, Body: loaded.default }),
      () => isOver || setShown({ page, failure: true }),
    );
    return () => void (isOver = true);
  }, [found?.page.load]);
  if (!found) return <Empty title="There is no page at this address." command="oncue --help" />;
  if (!shown) return <Loading />;
  if ("failure" in shown) return <NotLoaded />;
  if (shown.page.load !== found.page.load) return <Loading />;
  return <Boundary key={`${path.value.split("/")[1]} ${found.params.id}`}><shown.Body params={found.params} /></Boundary>;
}

/** Its code did not come. Browsers remember that, so everything is loaded anew, by itself when the server is back. */
function NotLoaded() {
  useEffect(() => {
    let wasAway = false;
    return effect(() => {
      if (liveState.value !== "live") wasAway = true;
      else if (wasAway) location.reload();
    });
  }, []);
  return (
    <div class="trouble" role="alert">
      <p><strong>This page could not be loaded.</strong> The server does not answer, or has another version by now.</p>
      <Button onClick={() => location.reload()}>Load it again</Button>
    </div>
  );
}

/** Shown by its style only if it takes a while. */
function Loading() {
  return <p class="loading faint">Loading …</p>;
}

class Boundary extends Component<{ children: ComponentChildren }, { error?: Error }> {
  state: { error?: Error } = {};
  static getDerivedStateFromError(error: Error) {
    return { error };
  }
  render() {
    return this.state.error ? <Broken error={this.state.error} /> : this.props.children;
  }
}

function Broken({ error }: { error: Error }) {
  return (
    <div class="trouble" role="alert">
      <p><strong>This page broke.</strong> {error.message}</p>
      {location.search && <Button onClick={() => location.assign(location.pathname)}>Without filters</Button>}
      <Button onClick={() => location.reload()}>Load it again</Button>
    </div>
  );
}
