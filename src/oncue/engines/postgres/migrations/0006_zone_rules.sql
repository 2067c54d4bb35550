-- The time-zone rules that a cursor follows from; null: from none. '' sorts before every version: nobody knows, look again.
alter table agenda add column rules text collate "C" default '';
create index agenda_rules on agenda (rules, job_id) where rules is not null and next_at < 4611686018427387904;

create table zone_rules (                             -- which rules schedulers go by, and when one of them planned last
  version text collate "C" primary key, seen_at bigint not null) with (fillfactor = 50);
