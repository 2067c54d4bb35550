import { Button } from "./Button";
import { When } from "./When";

/** Says how far a list looked, instead of a silent cut. Renders nothing if there is nothing to say. */
export function LookedBack({ to, onMore, hasMore }: { to: string | null; hasMore: boolean; onMore: () => void }) {
  if (!hasMore) return null;
  return (
    <p class="looked-back">
      {to ? <>Looked back to <When at={to} as="clock" focusable />. </> : null}
      <Button onClick={onMore}>{to ? "Look further" : "Show more"}</Button>
    </p>
  );
}
