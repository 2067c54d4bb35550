import type { ComponentChildren } from "preact";
import { Copy } from "./Copy";

/** Nothing here, and what to type next. */
export function Empty({ title, children, command }: { title: string; children?: ComponentChildren; command?: string }) {
  return (
    <div class="empty">
      <p class="empty-title">{title}</p>
      {children && <p>{children}</p>}
      {command && <p class="command"><code>{command}</code><Copy text={command} what="the command" /></p>}
    </div>
  );
}
