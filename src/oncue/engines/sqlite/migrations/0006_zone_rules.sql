-- The time-zone rules that a cursor follows from; null: from none. '' sorts before every version: nobody knows, look again.
alter table agenda add column rules text default '';
create index agenda_rules on agenda (rules, job_id) where rules is not null and next_at < 4611686018427387904;

create table zone_rules (version text primary key, seen_at integer not null) without rowid; -- those schedulers go by, and when one planned last
