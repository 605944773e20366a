-- Tables, closures and strings, made and dropped: lua5.4 tables.lua ROUNDS [LIVE]
-- SPDX-License-Identifier: MIT
local rounds, most_live = tonumber(arg[1]), tonumber(arg[2] or 400)

local state = 1
local function random(n)
  state = (state * 1103515245 + 12345) % 2147483648
  return state // 65536 % n
end

-- A queue of documents; each is an object with methods, a nested table and text.
local Document = {}
Document.__index = Document

function Document.new(number)
  local fields = {}
  for i = 1, 12 do fields["field" .. random(40)] = { value = random(1000), name = "value of " .. i } end
  local lines = {}
  for i = 1, 20 do lines[i] = ("line %d of document %d says %d"):format(i, number, random(100000)) end
  return setmetatable({ number = number, fields = fields, lines = lines, listeners = {} }, Document)
end

function Document:listen(listener) self.listeners[#self.listeners + 1] = listener end

function Document:text() return table.concat(self.lines, "\n") end

local live, total, calls = {}, 0, 0
for number = 1, rounds do
  local document = Document.new(number)
  for _ = 1, 5 do
    local bonus = random(10)
    document:listen(function(value) calls = calls + 1; return value + bonus end)
  end
  local text = document:text():gsub("%d+", function(digits) return "<" .. digits .. ">" end)
  for word in text:gmatch("%a+") do total = total + #word end
  for _, listener in ipairs(document.listeners) do total = total + listener(number) % 7 end
  live[random(most_live) + 1] = document -- and the one that was there is dropped
end

local names = {}
for _, document in pairs(live) do
  for name, field in pairs(document.fields) do names[name] = (names[name] or 0) + field.value end
end
local sum = 0
for _, value in pairs(names) do sum = sum + value end
print(total, calls, sum)
