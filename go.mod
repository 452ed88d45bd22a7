module github.com/isobit-ml/isobit

go 1.26
