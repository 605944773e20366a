module hakmem/howto

go 1.21
