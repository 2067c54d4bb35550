delete from lanes where not exists (select 1 from runs r where r.gate = lanes.lane)
