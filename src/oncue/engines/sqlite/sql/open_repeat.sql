update repeats_{generation} set body_hash = x'' where uid = ? and key_hash = ? and body_hash = ? and made = ? and answer is null
