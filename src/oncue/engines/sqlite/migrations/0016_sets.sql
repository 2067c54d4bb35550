create table sets (                                   -- of declared jobs: the stamp of the last declaration, and a digest of it
  uid integer, name text, stamp integer not null, digest blob not null, applied_at integer not null, primary key (uid, name)) strict, without rowid;
