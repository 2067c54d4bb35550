-- Whether there is this schema, and whether it is this user's.
select nspowner is not null, coalesce(pg_has_role(nspowner, 'usage'), false), current_user::text
from (select $1::text as name) given left join pg_namespace on nspname = given.name
