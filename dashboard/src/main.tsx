import { render } from "preact";
import { call } from "./api/client";
import { startLive } from "./live";
import { pageOf } from "./pages/pages";
import { followLinks, path } from "./router";
import { lookWhoIsThere, session } from "./session";
import { Shell } from "./shell/Shell";
import "./theme";
import { setServerTime, startClock } from "./time";
import { effect } from "@preact/signals";

followLinks();
startClock();
startLive();
effect(() => {
  if (session.value) void call("get", "/v1/server").then((answer) => answer.ok && setServerTime(answer.value.time));
});
void lookWhoIsThere();
pageOf(path.value)?.page.load().catch(() => {}); // while we look: who shows it says what went wrong
render(<Shell />, document.getElementById("app")!);
