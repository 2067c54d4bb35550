import type { ApiError } from "../api/client";
import { words } from "../toasts";
import { Button } from "./Button";

/** An error of the API, in its words, with a way to try again. */
export function Trouble({ error, onAgain }: { error: ApiError; onAgain?: () => void }) {
  return (
    <div class="trouble" role="alert">
      <p><strong>{error.title}</strong> {words(error)}</p>
      {onAgain && <Button onClick={onAgain}>Try again</Button>}
    </div>
  );
}
