module github.com/fairway-gpu/fairway

go 1.26
