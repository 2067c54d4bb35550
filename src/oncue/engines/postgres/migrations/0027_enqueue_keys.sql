-- Which keys applications have enqueued with: a row stays as long as the key is remembered, wherever its job is by then. Its unique
-- index decides, and it sees the present even in a transaction whose snapshot is old.
create table enqueue_keys (uid int, key_hash bytea, body_hash bytea not null, job_id uuid not null, primary key (uid, key_hash));
create index enqueue_keys_by_job on enqueue_keys (job_id);  -- ids rise with time

-- A call of the function of before that began before this migration and writes after it.
create function remember_enqueued() returns trigger language plpgsql as $$
begin
  insert into enqueue_keys (uid, key_hash, body_hash, job_id)
    select new.uid, new.key_hash, new.body_hash, new.job_id
    where current_setting('transaction_isolation') = 'read committed'
      and not exists (select from repeats_0 r where r.uid = new.uid and r.key_hash = new.key_hash)
      and not exists (select from repeats_1 r where r.uid = new.uid and r.key_hash = new.key_hash)
    on conflict do nothing;
  if not found then
    raise exception 'oncue was upgraded during this call' using errcode = '40001', hint = 'Repeat the transaction.';
  end if;
  return new;
end $$;
create trigger remember_enqueued before insert on outbox
  for each row when (new.key_hash is not null and new.why is null) execute function remember_enqueued();

-- The trigger's lock has waited for all transactions that have enqueued.
insert into enqueue_keys (uid, key_hash, body_hash, job_id) select uid, key_hash, body_hash, job_id from outbox where key_hash is not null;

create or replace function enqueue(
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
  if options <> '{}' then
    select k.field into wrong from jsonb_object_keys(options) k(field)
      where k.field in ('task', 'payload') or exists (select from job_fields) and not exists (select from job_fields f where f.name = k.field)
      limit 1;
    if found then
      raise exception 'options: % is not a field of jobs', quote_literal(left(wrong, 100)) using errcode = '22023',
        hint = 'Fields are those of POST /v1/jobs, without task and payload: schedule, queue, max_retries and so on.';
    end if;
  end if;
  if idempotency_key !~ '^[ -~]{1,255}$' then
    raise exception 'idempotency_key must be 1 to 255 printable ASCII characters' using errcode = '22023';
  end if;
  if idempotency_key is not null then
    hashed := substr(sha256(convert_to('outbox ' || idempotency_key, 'UTF8')), 1, 16);
    body := substr(sha256(convert_to(jsonb_build_array(task, payload, options)::text, 'UTF8')), 1, 16);
    loop
      -- A row that is there, and that the snapshot of this transaction does not have, raises 40001 here.
      insert into enqueue_keys (uid, key_hash, body_hash, job_id) values (granted.uid, hashed, body, new_id) on conflict do nothing;
      if found then
        -- The key is new, unless its job was created before this migration. A snapshot from before that does not tell.
        if current_setting('transaction_isolation') <> 'read committed' then
          if not exists (select from oncue_migrations m where m.number = 27) then
            raise exception 'oncue was upgraded during this transaction' using errcode = '40001', hint = 'Repeat the transaction.';
          end if;
        end if;
        select r.made as job_id, r.body_hash into taken from (
          select made, body_hash from repeats_0 where uid = granted.uid and key_hash = hashed
          union all select made, body_hash from repeats_1 where uid = granted.uid and key_hash = hashed) r limit 1;
        exit when not found;
        update enqueue_keys k set job_id = taken.job_id, body_hash = taken.body_hash where k.uid = granted.uid and k.key_hash = hashed;
      else
        select k.job_id, k.body_hash into taken from enqueue_keys k where k.uid = granted.uid and k.key_hash = hashed;
        continue when not found;                      -- it was forgotten meanwhile
      end if;
      if taken.body_hash <> body then
        raise exception 'this idempotency_key was already used with another task, payload or options' using errcode = '23505',
          hint = 'Use a new key.';
      end if;
      return taken.job_id;
    end loop;
  end if;
  insert into outbox (job_id, uid, role, db_role, task, payload, options, require_task, at, since)
    values (new_id, granted.uid, granted.role, session_user, task, payload, options, require_task, now_at, now_at);
  return new_id;
end $$;

do $$ begin
  execute format('alter function enqueue(text, jsonb, jsonb, text, boolean) set search_path = %I, pg_temp', current_schema());
end $$;
