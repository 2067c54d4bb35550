update turns set position = ?3 where name = ?1 and position = ?2 returning name
