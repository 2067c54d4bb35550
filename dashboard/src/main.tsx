import { render } from "preact";
import { call } from "./api/client";
import { startLive } from "./live";
import { followLinks } from "./router";
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
render(<Shell />, document.getElementById("app")!);
