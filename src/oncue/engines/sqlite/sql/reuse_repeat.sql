update repeats_{generation} set body_hash = ? where uid = ? and key_hash = ? and body_hash = x'' and answer is null
