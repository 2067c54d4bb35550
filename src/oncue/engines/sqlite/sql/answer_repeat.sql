-- With the body: a request that was refused at the same time may have left the key open.
update repeats_{generation} set body_hash = ?, answer = ? where uid = ? and key_hash = ? and made = ? and answer is null
