create table sets (                                   -- of declared jobs: the stamp of the last declaration, and a digest of it
  uid int, name text, stamp bigint not null, digest bytea not null, applied_at bigint not null, primary key (uid, name));
