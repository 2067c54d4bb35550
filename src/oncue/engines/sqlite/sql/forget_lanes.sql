delete from lanes where lane in (select value from carray(?1)) and not exists (select 1 from runs r where r.gate = lanes.lane)
