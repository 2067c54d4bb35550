select {key} from (select {key} from {table} {who} order by {order} limit :scan) where substr(hex({key}), :length) = :ending
