import { path } from "../router";
import { href } from "../router";

export type Tab = { path: string; label: string };

/** Links between views of one object: each tab is a URL. */
export function Tabs({ label, tabs }: { label: string; tabs: Tab[] }) {
  return (
    <nav class="tabs" aria-label={label}>
      {tabs.map((tab) => (
        <a key={tab.path} href={href(tab.path)} aria-current={path.value === tab.path ? "page" : undefined}>{tab.label}</a>
      ))}
    </nav>
  );
}
