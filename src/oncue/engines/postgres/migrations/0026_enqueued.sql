-- What became of a job that an application enqueued, until a scheduler creates it: the API does not know it yet.
create function enqueued(job_id uuid) returns jsonb language sql stable security definer as $$
  select jsonb_build_object('task', o.task, 'payload', o.payload, 'queue', o.options ->> 'queue', 'why', o.why, 'refused', o.retry_at = 1::bigint << 62)
  from outbox o join db_grants g on g.uid = o.uid where g.db_role = session_user and o.job_id = enqueued.job_id
$$;

revoke all on function enqueued(uuid) from public;
do $$ declare granted record; begin
  execute format('alter function enqueued(uuid) set search_path = %I, pg_temp', current_schema());
  for granted in select d.db_role from db_grants d join pg_roles r on r.rolname = d.db_role loop
    execute format('grant execute on function enqueued(uuid) to %I', granted.db_role);
  end loop;
end $$;
