select current_setting('server_encoding'), current_schema()
