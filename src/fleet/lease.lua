return redis.error_reply('not written')
