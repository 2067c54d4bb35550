import { useState } from "preact/hooks";
import { call, type ApiError } from "../../api/client";
import type { Schemas } from "../../api/types";
import { useGet } from "../../api/use";
import { Button } from "../../components/Button";
import { Copy } from "../../components/Copy";
import { Dialog } from "../../components/Dialog";
import { Field } from "../../components/Field";
import { quoted } from "../../commands";
import { words } from "../../toasts";

type Wanted = Schemas["KeyOf"];
type Made = Schemas["NewKey"];

const ROLES: [Wanted["role"], string][] = [
  ["viewer", "viewer: sees their own jobs, changes nothing"],
  ["member", "member: creates and changes their own jobs"],
  ["admin", "admin: sees and changes everything"],
];
const LASTS: [string, string][] = [["30d", "30 days"], ["90d", "90 days"], ["365d", "a year"], ["", "no end"]];

/** A form, and then the secret, which is shown this once. */
export function NewKey({ onClose, onMade }: { onClose: () => void; onMade: () => void }) {
  const [made, setMade] = useState<Made | null>(null);
  const done = (key: Made): void => {
    setMade(key);
    onMade();
  };
  return made ? <Secret key="secret" of={made} onClose={onClose} /> : <Form key="form" onClose={onClose} onDone={done} />;
}

function Form({ onClose, onDone }: { onClose: () => void; onDone: (key: Made) => void }) {
  const users = useGet("/v1/users");
  const [wanted, setWanted] = useState<Wanted>({ user_id: "", role: "member", note: "", expires_in: "90d" });
  const [error, setError] = useState<ApiError>();
  const set = (change: Partial<Wanted>): void => setWanted({ ...wanted, ...change });
  const submit = async (event: Event): Promise<void> => {
    event.preventDefault();
    const answer = await call("post", "/v1/keys", { body: { ...wanted, note: wanted.note || null, expires_in: wanted.expires_in || null } });
    if (answer.ok) onDone(answer.value);
    else setError(answer.error);
  };
  const wrong = (path: string): string | undefined => error?.errors.find((one) => one.path === path)?.message;
  const isNew = wanted.user_id && users.data && !users.data.users.some((user) => user.user_id === wanted.user_id);
  return (
    <Dialog title="New key" onClose={onClose}>
      <form class="form" onSubmit={submit}>
        <Field label="User" hint={isNew ? "A new user with this name is created." : "Whose jobs it sees."} error={wrong("user_id")}>
          <input name="user_id" required autocomplete="off" list="known-users" value={wanted.user_id} onInput={(event) => set({ user_id: event.currentTarget.value.trim() })} />
        </Field>
        <datalist id="known-users">{users.data?.users.map((user) => <option key={user.user_id} value={user.user_id} />)}</datalist>
        <Field label="Role" error={wrong("role")}>
          <select name="role" value={wanted.role} onChange={(event) => set({ role: event.currentTarget.value as Wanted["role"] })}>
            {ROLES.map(([role, text]) => <option key={role} value={role}>{text}</option>)}
          </select>
        </Field>
        <Field label="Note" hint="What it is for, so that somebody dares to revoke it." error={wrong("note")}>
          <input name="note" maxLength={200} autocomplete="off" value={wanted.note ?? ""} onInput={(event) => set({ note: event.currentTarget.value })} />
        </Field>
        <Field label="Lasts" error={wrong("expires_in")}>
          <select name="expires_in" value={wanted.expires_in ?? ""} onChange={(event) => set({ expires_in: event.currentTarget.value })}>
            {LASTS.map(([time, text]) => <option key={time} value={time}>{text}</option>)}
          </select>
        </Field>
        <p class="command"><code>{commandFor(wanted)}</code><Copy text={commandFor(wanted)} what="the command" /></p>
        {error && !error.errors.length && <p class="refusal" role="alert">{words(error)}</p>}
        <footer>
          <Button onClick={onClose}>Leave it</Button>
          <Button kind="primary" type="submit">Create key</Button>
        </footer>
      </form>
    </Dialog>
  );
}

function commandFor({ user_id, role, note, expires_in }: Wanted): string {
  const options = [["--user", user_id || "NAME"], ["--role", role], ["--note", note], ["--expires", expires_in]];
  return ["oncue keys create", ...options.flatMap(([name, value]) => (value ? [name!, quoted(value)] : []))].join(" ");
}

function Secret({ of, onClose }: { of: Made; onClose: () => void }) {
  return (
    <Dialog title={`The new key of ${of.user_id}`} onClose={onClose}>
      <p class="command secret"><code>{of.key}</code><Copy text={of.key} what="the key" /></p>
      <p><strong>It is shown only now.</strong> Only a hash of it is kept; whoever has it is {of.user_id}, as {of.role}.</p>
      <footer><Button kind="primary" onClick={onClose}>I have copied it</Button></footer>
    </Dialog>
  );
}
