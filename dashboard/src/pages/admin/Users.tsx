import type { Schemas } from "../../api/types";
import { usePaged } from "../../api/use";
import { LookedBack } from "../../components/LookedBack";
import { Table, type Column } from "../../components/Table";
import { Trouble } from "../../components/Trouble";
import { When } from "../../components/When";
import { href } from "../../router";
import { bytes } from "./amounts";

type User = Schemas["User"];

export function Users() {
  const users = usePaged("/v1/users", {}, (page) => page.users);
  return (
    <>
      {users.error && <Trouble error={users.error} onAgain={users.reload} />}
      {users.items.length > 0 && <Table label="Users" columns={COLUMNS} rows={users.items} keyOf={(user) => String(user.number)} isStale={users.loading} onEnd={users.more} />}
      <LookedBack to={null} hasMore={users.hasMore} onMore={users.more} />
      <p class="hint">A user is created with the first key. Quotas are settings of the server: <code>--max-jobs-per-user</code>, <code>--max-payload-bytes-per-user</code>; administrators have none.</p>
    </>
  );
}

const COLUMNS: Column<User>[] = [
  { head: "User", cell: (user) => <a class="main-link" href={href("/admin/audit", { user_id: user.user_id })}>{user.user_id}</a> },
  { head: "Valid keys", width: "6rem", align: "end", cell: (user) => <span class={user.keys ? "number" : "number faint"}>{user.keys}</span> },
  { head: "Open jobs", width: "10rem", phoneWidth: "7rem", align: "end", cell: (user) => <Used n={user.open_jobs} more={user.more_jobs} most={user.max_jobs} /> },
  { head: "Payloads", width: "12rem", align: "end", wide: true, cell: (user) => <Used n={user.payload_bytes} most={user.max_payload_bytes} show={bytes} /> },
  { head: "Since", width: "8rem", align: "end", wide: true, cell: (user) => <When at={user.created_at} /> },
];

type UsedProps = { n: number | null; more?: boolean; most: number | null; show?: (n: number) => string };

/** An amount beside its quota; loud from nine tenths on. */
function Used({ n, more = false, most, show = (amount) => amount.toLocaleString("en") }: UsedProps) {
  if (n === null) return <span class="faint">not counted</span>;
  const isNear = most !== null && n >= most * 0.9;
  const amount = `${more ? "at least " : ""}${show(n)}`;
  return (
    <span class={isNear ? "number warn-text" : "number"}>
      {isNear && <span aria-hidden="true">! </span>}
      {amount}
      {most === null ? <span class="faint"> · no quota</span> : ` of ${show(most)}`}
    </span>
  );
}
