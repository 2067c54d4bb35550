import { useState } from "preact/hooks";
import { call } from "../../api/client";
import type { Key } from "../../api/types";
import { useGet } from "../../api/use";
import { Button } from "../../components/Button";
import { ask } from "../../components/Confirm";
import { Empty } from "../../components/Empty";
import { StateMark } from "../../components/StateMark";
import { Table, type Column } from "../../components/Table";
import { Trouble } from "../../components/Trouble";
import { When } from "../../components/When";
import { command } from "../../commands";
import { href, query, setQuery } from "../../router";
import { session } from "../../session";
import { now, second } from "../../time";
import { NewKey } from "./NewKey";

const SOON = 14 * 24 * 3_600_000; // ms: a key that ends earlier stands out

/** Valid keys; `?all=true` shows those that have ended, too. */
export function Keys() {
  const keys = useGet("/v1/keys");
  const [isNew, setNew] = useState(false);
  const withEnded = query.value.get("all") === "true";
  const all = keys.data?.keys ?? [];
  const ended = all.filter((key) => stateOfKey(key) !== "valid").length;
  const shown = withEnded ? all : all.filter((key) => stateOfKey(key) === "valid");
  if (keys.error && !keys.data) return <Trouble error={keys.error} onAgain={keys.reload} />;
  return (
    <>
      <div class="filters">
        <Button kind="primary" changes="keys" onClick={() => setNew(true)}>New key</Button>
        {ended > 0 && <Button pressed={withEnded} onClick={() => setQuery({ all: withEnded ? undefined : "true" })}>{`Show ${ended} that ended`}</Button>}
      </div>
      {shown.length > 0 && <Table label="API keys" columns={columnsOf(keys.reload)} rows={shown} keyOf={(key) => key.key_id} isStale={keys.loading} />}
      {keys.data && !shown.length && <Empty title="There is no valid key." command="oncue keys create --user NAME --role member" />}
      {isNew && <NewKey onClose={() => setNew(false)} onMade={keys.reload} />}
    </>
  );
}

export function stateOfKey(key: Key): "valid" | "expired" | "revoked" {
  if (key.revoked_at) return "revoked";
  return key.expires_at && Date.parse(key.expires_at) <= now() ? "expired" : "valid";
}

function columnsOf(reload: () => void): Column<Key>[] {
  return [
    { head: "User", width: "16%", phoneWidth: "auto", cell: (key) => <a class="main-link" href={href("/admin/audit", { user_id: key.user_id })}>{key.user_id}</a> },
    { head: "Role", width: "6rem", phoneWidth: "4.5rem", cell: (key) => key.role },
    { head: "Note", cell: (key) => <span class="cut" title={key.note ?? undefined}>{key.note ?? <span class="faint">–</span>}</span> },
    { head: "State", width: "7rem", phoneWidth: "3rem", cell: (key) => <StateMark state={stateOfKey(key)} /> },
    { head: "Created", width: "7rem", wide: true, cell: (key) => <When at={key.created_at} /> },
    { head: "Ends", width: "8rem", wide: true, cell: (key) => <Ends of={key} /> },
    { head: "Last used", width: "7rem", wide: true, cell: (key) => <LastUse day={key.last_used_on} /> },
    { head: <span class="for-readers">Revoke</span>, width: "5.5rem", phoneWidth: "4rem", align: "end", cell: (key) => <Revoke of={key} after={reload} /> },
  ];
}

function Ends({ of }: { of: Key }) {
  if (of.revoked_at) return <When at={of.revoked_at} />;
  const isSoon = of.expires_at && stateOfKey(of) === "valid" && Date.parse(of.expires_at) - now() < SOON;
  return <span class={isSoon ? "warn-text" : undefined}>{isSoon && <span aria-hidden="true">◷ </span>}<When at={of.expires_at} none="never" /></span>;
}

/** The day is all that is kept, and it is a day of UTC. */
function LastUse({ day }: { day: string | null }) {
  if (!day) return <span class="faint">not yet</span>;
  const ago = Math.floor((second.value - Date.parse(day)) / 86_400_000);
  return <span title={`${day}, UTC`}>{ago <= 0 ? "today" : ago === 1 ? "yesterday" : `${ago} days ago`}</span>;
}

function Revoke({ of, after }: { of: Key; after: () => void }) {
  if (stateOfKey(of) !== "valid") return null;
  const isMine = of.key_id === session.value?.key_id;
  const hits = (
    <p>
      The {of.role} key of <strong>{of.user_id}</strong>{of.note && <> ({of.note})</>}, used last <LastUse day={of.last_used_on} />. Programs and browsers that use it are refused
      within a second, for ever.{isMine && <strong> You are signed in with it: you will be signed out.</strong>}
    </p>
  );
  const asking = (): void =>
    ask({
      title: "Revoke this key?", hits, command: command("keys revoke", [of.key_id]), label: "Revoke it", isDangerous: true,
      act: () => call("delete", "/v1/keys/{id}", { path: { id: of.key_id } }), done: "The key is revoked.", after,
    });
  return <Button kind="quiet" changes="keys" label={`Revoke the key of ${of.user_id}, ${of.note ?? of.role}`} onClick={asking}>Revoke</Button>;
}
