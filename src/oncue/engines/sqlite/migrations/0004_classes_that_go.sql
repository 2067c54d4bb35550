-- Classes go when nothing refers to them any more: what that takes to know, and for whom each was made.
alter table classes add column made_by integer;
alter table classes add column used_at integer;                        -- null: somebody has asked for it since anybody looked
alter table classes add column counted integer not null default 0;     -- what its counts came to, when it was looked at
create index classes_maker on classes (made_by);
create index classes_queue on classes (queue);
create index counters_class on counters (class_id);
create index jobs_class on jobs (class_id);
create index dead_class on dead (class_id);
