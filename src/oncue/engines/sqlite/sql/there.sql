select t.{key} from carray(?1) asked cross join {table} t on t.{key} = asked.value
