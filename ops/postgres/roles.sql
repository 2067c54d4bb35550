-- Run by a test on a real server: all roles of oncue work with these rights, and the API cannot change a table.
-- psql --variable=owner_password=… --variable=app_password=… --file=roles.sql DATABASE    (as a superuser)
--
-- oncue_owner: `oncue migrate` and schedulers, which create and drop the partitions of history.
-- oncue_app: APIs and workers. They read and write rows and nothing else.
\set ON_ERROR_STOP on
begin;

create role oncue_owner login password :'owner_password';
create role oncue_app login password :'app_password';

revoke all on schema public from public;
select format('revoke all on database %I from public', current_database()) \gexec
select format('grant connect on database %I to oncue_owner, oncue_app', current_database()) \gexec

create schema oncue authorization oncue_owner;
grant usage on schema oncue to oncue_app;
alter role oncue_owner set search_path = oncue;
alter role oncue_app set search_path = oncue;

alter default privileges for role oncue_owner in schema oncue
    grant select, insert, update, delete on tables to oncue_app;
alter default privileges for role oncue_owner in schema oncue
    grant usage, select on sequences to oncue_app;

commit;
