select lane, width from lanes where lane in (select value from carray(?1))
