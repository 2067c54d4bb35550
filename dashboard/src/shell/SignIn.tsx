import { useEffect, useState } from "preact/hooks";
import { Button } from "../components/Button";
import { Field } from "../components/Field";
import { signIn } from "../session";
import { words } from "../toasts";

/** A key for a session: the browser keeps a cookie, never the key. The address stays, so the page wanted comes next. */
export function SignIn() {
  const [key, setKey] = useState("");
  const [refusal, setRefusal] = useState("");
  useEffect(() => {
    document.title = "Sign in · oncue";
  }, []);
  const submit = async (event: Event): Promise<void> => {
    event.preventDefault();
    const answer = await signIn(key.trim());
    if (!answer.ok) setRefusal(words(answer.error));
  };
  return (
    <main class="sign-in">
      <form onSubmit={submit}>
        <h1><span aria-hidden="true">◔</span> oncue</h1>
        <input type="text" autocomplete="username" value="oncue" hidden readOnly />
        <Field label="API key" hint="The first start of the server printed one; it is in admin.key in its data folder." error={refusal}>
          <input type="password" autocomplete="current-password" required autofocus value={key} onInput={(event) => setKey(event.currentTarget.value)} />
        </Field>
        <Button kind="primary" type="submit">Sign in</Button>
      </form>
    </main>
  );
}
