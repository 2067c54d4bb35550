delete from {table} where ({key}) in (select {key} from {table} where at < ?1 limit ?2)
