import { effect, signal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import type { Result } from "../api/client";
import { path } from "../router";
import { toast, words } from "../toasts";
import { Button } from "./Button";
import { Copy } from "./Copy";
import { Dialog } from "./Dialog";

export type Question = {
  title: string;
  /** What it hits, in words: how many, which, and what happens to them. */
  hits: ComponentChildren;
  /** The same as a command line. */
  command: string;
  /** What the button says: the verb. */
  label: string;
  isDangerous?: boolean;
  act: () => Promise<Result<unknown>>;
  /** Said when it is done. */
  done: string;
  after?: () => void;
};

const question = signal<Question | null>(null);
effect(() => {
  void path.value;
  question.value = null; // on another page it would ask about what is not there
});

/** Asks before something is done: `ask({ title: "Cancel this job?", hits, command, label: "Cancel it", act, done })`. */
export function ask(asked: Question): void {
  question.value = asked;
}

/** Where questions are shown; once, in the shell. */
export function Questions() {
  return question.value && <Confirm key={question.value.title} asked={question.value} />;
}

function Confirm({ asked }: { asked: Question }) {
  const [refusal, setRefusal] = useState("");
  const close = (): void => void (question.value = null);
  const act = async (): Promise<void> => {
    const result = await asked.act();
    if (!result.ok) return setRefusal(words(result.error));
    close();
    toast(asked.done);
    asked.after?.();
  };
  return (
    <Dialog title={asked.title} onClose={close}>
      <div class="hits">{asked.hits}</div>
      <p class="command"><code>{asked.command}</code><Copy text={asked.command} what="the command" /></p>
      {refusal && <p class="refusal" role="alert">{refusal}</p>}
      <footer>
        <Button onClick={close}>Leave it</Button>
        <Button kind={asked.isDangerous ? "danger" : "primary"} onClick={act}>{asked.label}</Button>
      </footer>
    </Dialog>
  );
}
