select name from sqlite_master where type in ('table', 'view') and substr(name, 1, 7) <> 'sqlite_' order by name
