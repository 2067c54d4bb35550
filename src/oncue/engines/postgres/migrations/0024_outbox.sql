-- Jobs that applications enqueue in their own transactions: a rollback leaves nothing, and a commit is taken in by schedulers.
create table db_grants (                              -- which role of the database enqueues for which user
  db_role name primary key, uid int not null, role text not null, granted_at bigint not null);

create table outbox (
  seq bigint generated always as identity primary key, job_id uuid not null unique,
  uid int not null, role text not null, db_role name not null, task text not null, payload jsonb not null, options jsonb not null,
  key_hash bytea, body_hash bytea,
  require_task boolean not null,                      -- otherwise the task may be registered later
  at bigint not null,                                 -- relative times count from here
  since bigint not null,                              -- it is tried again so long from here
  retry_at bigint not null default 0,                 -- 2^62: it was refused, and stays until somebody decides
  why text)
  with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 50000, autovacuum_vacuum_cost_delay = 0);
create unique index outbox_keys on outbox (uid, key_hash) where key_hash is not null;
create index outbox_next on outbox (retry_at, seq);

create table job_fields (name text primary key);      -- what `options` may name; schedulers say it. Empty: not known yet

-- UUIDv7 as domain/ids.py makes them: milliseconds, a fraction of one in 12 bits, 62 random bits.
create function new_job_id(at bigint) returns uuid language sql volatile as $$
  select (lpad(to_hex(at / 1000), 12, '0') || '7' || lpad(to_hex(at % 1000 * 4096 / 1000), 3, '0')
    || substr(replace(gen_random_uuid()::text, '-', ''), 17))::uuid
$$;

create function enqueue(
  task text, payload jsonb default '{}', options jsonb default '{}', idempotency_key text default null,
  require_task boolean default true) returns uuid language plpgsql security definer as $$
#variable_conflict use_variable
declare
  now_at bigint := (extract(epoch from clock_timestamp()) * 1000000)::bigint;
  granted record;
  known record;
  parameters jsonb;
  wrong text;
  new_id uuid := new_job_id(now_at);
  hashed bytea;
  body bytea;
  taken record;
begin
  select g.uid, g.role into granted from db_grants g where g.db_role = session_user;
  if not found then
    raise exception 'the database role % may not enqueue jobs', quote_ident(session_user)
      using errcode = '42501', hint = format('Grant it the right: oncue db grant %s --user USER --role member', quote_ident(session_user));
  end if;
  if task is null or require_task is null then
    raise exception 'task and require_task must not be null' using errcode = '22023';
  end if;
  payload := coalesce(payload, '{}');
  options := coalesce(options, '{}');
  if jsonb_typeof(payload) <> 'object' or jsonb_typeof(options) <> 'object' then
    raise exception 'payload and options must be JSON objects, like {"user": 7}' using errcode = '22023';
  end if;
  select t.schema, t.roles into known from tasks t where t.task = enqueue.task;
  if not found then
    if require_task then
      raise exception 'task % is not registered', quote_literal(left(task, 100)) using errcode = '22023',
        hint = 'Check the spelling, start a worker that has it, or run: oncue tasks register MODULE';
    end if;
  elsif not granted.role = any(known.roles) then
    raise exception 'task % needs one of these roles: %', quote_literal(left(task, 100)), array_to_string(known.roles, ', ')
      using errcode = '42501', hint = format('Grant another one: oncue db grant %s --user USER --role ROLE', quote_ident(session_user));
  elsif require_task then
    parameters := convert_from(known.schema, 'UTF8')::jsonb;
    select k.field into wrong from jsonb_array_elements_text(
      case jsonb_typeof(parameters -> 'required') when 'array' then parameters -> 'required' else '[]' end) k(field)
      where not payload ? k.field limit 1;
    if found then
      raise exception 'payload: % is required by task %', quote_literal(wrong), quote_literal(left(task, 100)) using errcode = '22023',
        hint = format('See its parameters: oncue tasks show %s', quote_ident(left(task, 100)));
    end if;
    if parameters -> 'additionalProperties' = 'false' then
      select k.field into wrong from jsonb_object_keys(payload) k(field)
        where not coalesce(parameters -> 'properties', '{}') ? k.field limit 1;
      if found then
        raise exception 'payload: % is not a parameter of task %', quote_literal(left(wrong, 100)), quote_literal(left(task, 100)) using errcode = '22023',
          hint = format('See its parameters: oncue tasks show %s', quote_ident(left(task, 100)));
      end if;
    end if;
  end if;
  select k.field into wrong from jsonb_object_keys(options) k(field)
    where k.field in ('task', 'payload') or exists (select from job_fields) and not exists (select from job_fields f where f.name = k.field)
    limit 1;
  if found then
    raise exception 'options: % is not a field of jobs', quote_literal(left(wrong, 100)) using errcode = '22023',
      hint = 'Fields are those of POST /v1/jobs, without task and payload: schedule, queue, max_retries and so on.';
  end if;
  if idempotency_key !~ '^[ -~]{1,255}$' then
    raise exception 'idempotency_key must be 1 to 255 printable ASCII characters' using errcode = '22023';
  end if;
  if idempotency_key is not null then
    hashed := substr(sha256(convert_to('outbox ' || idempotency_key, 'UTF8')), 1, 16);
    body := substr(sha256(convert_to(jsonb_build_array(task, payload, options)::text, 'UTF8')), 1, 16);
  end if;
  insert into outbox as o (job_id, uid, role, db_role, task, payload, options, key_hash, body_hash, require_task, at, since)
    values (new_id, granted.uid, granted.role, session_user, task, payload, options, hashed, body, require_task, now_at, now_at)
    on conflict (uid, key_hash) where key_hash is not null do update set body_hash = o.body_hash
    returning o.job_id, o.body_hash into taken;
  if hashed is null then
    return new_id;
  end if;
  if taken.job_id = new_id then                       -- nobody else has it in the outbox: it may have been taken in before
    select r.made as job_id, r.body_hash into taken from (
      select made, body_hash from repeats_0 where uid = granted.uid and key_hash = hashed
      union all select made, body_hash from repeats_1 where uid = granted.uid and key_hash = hashed) r limit 1;
    if not found then
      return new_id;
    end if;
    delete from outbox o where o.job_id = new_id;
  end if;
  if taken.body_hash <> body then
    raise exception 'this idempotency_key was already used with another task, payload or options' using errcode = '23505',
      hint = 'Use a new key.';
  end if;
  return taken.job_id;
end $$;

revoke all on function enqueue(text, jsonb, jsonb, text, boolean), new_job_id(bigint) from public;
-- pg_temp last: otherwise a caller's temporary table would stand before the tables that say who may do what.
do $$ begin
  execute format('alter function enqueue(text, jsonb, jsonb, text, boolean) set search_path = %I, pg_temp', current_schema());
end $$;
