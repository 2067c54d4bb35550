import { liveState, pauseLive } from "../live";
import { isAdmin, ownOnly, session, setScope, signOut } from "../session";
import { theme, THEMES, type Theme } from "../theme";
import { localZone, setZone, zone, ZONES, type Zone } from "../time";
import { Button } from "../components/Button";
import { isSearchOpen } from "./Search";

const ZONE_WORDS: Record<Zone, string> = { local: localZone, utc: "UTC", schedule: "schedule's zone" };
const LIVE_WORDS = {
  live: "Live: changes appear as they happen",
  "catching up": "Catching up: connecting to the server",
  paused: "Paused: this page stands still",
  away: "Away: the server does not answer",
};

/** Whose objects, whose clock, whether it is live, and who looks. */
export function Header() {
  return (
    <header class="header">
      <button type="button" class="search-button" aria-label="Search" onClick={() => (isSearchOpen.value = true)}>
        <span aria-hidden="true">⌕</span> <span class="label">Search</span> <kbd>/</kbd>
      </button>
      <span class="spring" />
      {isAdmin.value && <Scope />}
      <select aria-label="Time zone" title="Time zone" class="wide" value={zone.value} onChange={(event) => setZone(event.currentTarget.value as Zone)}>
        {ZONES.map((one) => <option key={one} value={one}>{ZONE_WORDS[one]}</option>)}
      </select>
      <Live />
      <Who />
    </header>
  );
}

function Scope() {
  return (
    <select aria-label="Whose objects" title="Whose objects" value={ownOnly.value ? "mine" : "all"} onChange={(event) => setScope(event.currentTarget.value === "mine")}>
      <option value="all">Everybody’s</option>
      <option value="mine">Mine</option>
    </select>
  );
}

function Live() {
  const state = liveState.value;
  return (
    <button type="button" class={`live is-${state.replace(" ", "-")}`} title={LIVE_WORDS[state]} aria-label={`${LIVE_WORDS[state]}. ${state === "paused" ? "Go on" : "Pause"}`} onClick={() => pauseLive(state !== "paused")}>
      <span class="dot" aria-hidden="true" /> <span class="label">{state}</span>
    </button>
  );
}

function Who() {
  const who = session.value;
  if (!who) return null;
  return (
    <details class="menu">
      <summary aria-label={`Signed in as ${who.user_id}, ${who.role}`}>
        <span class="who">{who.user_id}</span> <span class="faint wide">{who.role}</span>
      </summary>
      <div class="menu-body">
        <p>{who.user_id} · {who.role}{who.role === "viewer" && ": read-only"}</p>
        <label>Theme <select value={theme.value} onChange={(event) => (theme.value = event.currentTarget.value as Theme)}>{THEMES.map((one) => <option key={one}>{one}</option>)}</select></label>
        <label class="narrow">Times in <select value={zone.value} onChange={(event) => setZone(event.currentTarget.value as Zone)}>{ZONES.map((one) => <option key={one} value={one}>{ZONE_WORDS[one]}</option>)}</select></label>
        <Button onClick={signOut}>Sign out</Button>
      </div>
    </details>
  );
}
