# A Rack application: a page of JSON for each request, compressed.
require 'json'
require 'zlib'

run lambda { |environment|
  rows = Array.new(200) { |i| { id: i, name: "name #{i}", text: 'x' * (i % 900) } }
  body = Zlib::Deflate.deflate(JSON.generate(rows), 1)
  [200, { 'Content-Encoding' => 'deflate', 'Content-Length' => body.bytesize.to_s }, [body]]
}
