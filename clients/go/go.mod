module weir.dev/go

go 1.21
