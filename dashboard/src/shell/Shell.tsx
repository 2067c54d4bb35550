import { useEffect, useRef } from "preact/hooks";
import { Bulks } from "../components/Bulk";
import { Questions } from "../components/Confirm";
import { useKeys } from "../keys";
import { RAIL } from "../pages/pages";
import { go, href, path } from "../router";
import { session } from "../session";
import { Header } from "./Header";
import { Help, isHelpOpen } from "./Help";
import { Page } from "./Page";
import { Rail } from "./Rail";
import { isSearchOpen, Search } from "./Search";
import { SignIn } from "./SignIn";
import { Toasts } from "./Toasts";

/** Everything around a page. */
export function Shell() {
  if (session.value === undefined) return <p class="booting" role="status">Loading …</p>;
  return (
    <>
      {session.value ? <SignedIn /> : <SignIn />}
      <Toasts />
    </>
  );
}

function SignedIn() {
  const main = useRef<HTMLElement>(null);
  const letters = Object.fromEntries(RAIL.map((item) => [`g ${item.letter}`, () => go(href(item.path))]));
  const search = (): void => void (isSearchOpen.value = true);
  useKeys({ ...letters, "/": search, "mod+k": search, "?": () => (isHelpOpen.value = true) });
  useFocusOnNavigation(main);
  return (
    <div class="shell">
      <a class="skip" href="#main" onClick={(event) => (event.preventDefault(), main.current?.focus())}>Skip to the page</a>
      <Rail />
      <Header />
      <main id="main" ref={main} tabIndex={-1}>
        <Page />
      </main>
      <Bulks />
      {isSearchOpen.value && <Search />}
      {isHelpOpen.value && <Help />}
      <Questions />
    </div>
  );
}

/** After going to another page, screen readers and Tab go on at its beginning. */
function useFocusOnNavigation(main: { current: HTMLElement | null }): void {
  const before = useRef(path.value);
  const at = path.value;
  useEffect(() => {
    if (before.current !== at) main.current?.focus({ preventScroll: true });
    before.current = at;
  }, [at]);
}
