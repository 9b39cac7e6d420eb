-- Library functions written in the language itself: their loops are counted like the script's own.
-- Everything is held in locals, so that a script cannot change what these functions rely on.
local internal = ...
local type, select, next, pairs, error = type, select, next, pairs, error
local rawget, rawset, raw_pcall, raw_tostring = rawget, rawset, pcall, tostring
local raw_create, raw_resume, raw_yield, unpack = coroutine.create, coroutine.resume, coroutine.yield, unpack
local number_text, exhausted, gmatch_step, check_table, integer = internal.number_text, internal.exhausted, internal.gmatch_step, internal.check_table, internal.integer
local loadstring, caught, too_deep = internal.loadstring, internal.caught, internal.too_deep

-- A script that was stopped stays stopped, whatever catches the error.
local function after(...)
  if exhausted() then error(internal.stopped, 0) end
  return ...
end

-- In C, `pcall` and `resume` put their boolean beside all results without asking for room, which aborts a machine
-- with checks; so results travel in a table.
local function pack(...) return {...}, select("#", ...) end
local function call_packed(f, ...) return pack(f(...)) end
local function outcome(ok, results, count)
  if ok then return after(true, unpack(results, 1, count)) end
  caught(results)
  return after(false, results)
end

function pcall(...)
  if select("#", ...) == 0 then error("bad argument #1 to 'pcall' (value expected)", 2) end
  return outcome(raw_pcall(call_packed, ...))
end

-- The handler runs after the stack is unwound: inside, the hook that stops scripts is switched off.
function xpcall(f, handler, ...)
  local ok, results, count = raw_pcall(call_packed, f, ...)
  if ok then return after(true, unpack(results, 1, count)) end
  caught(results)
  after()
  local _, message = raw_pcall(handler, results)
  return after(false, message)
end

function tostring(...)
  local value = ...
  if type(value) == "number" then return number_text(value) end
  return raw_tostring(...)
end

tonumber = internal.tonumber

-- What a script calls without knowing: around operands of `..`, and around bounds of counting loops.
function __text(value)
  if type(value) == "number" then return number_text(value) end
  return value
end
function __count(value)
  if type(value) ~= "number" then error("for statement bounds must be numbers", 2) end
  return value
end

function load(f, name)
  if type(f) ~= "function" then error("bad argument #1 to 'load' (function expected, got " .. type(f) .. ")", 2) end
  local source = ""
  while true do
    local piece = f()
    if piece == nil or piece == "" then break end
    source = source .. piece
  end
  return loadstring(source, name)
end
_G.loadstring = loadstring

function print() end
function collectgarbage() end

-- Coroutines inside one another take machine stack that Lua 5.1 does not count.
local depth = 0
local function leave(...)
  depth = depth - 1
  return outcome(...)
end
local function resume(co, ...)
  if depth >= 16 then too_deep() end
  depth = depth + 1
  return leave(raw_resume(co, ...))
end
local function unwrap(ok, ...)
  if not ok then error((...), 0) end
  return ...
end
coroutine.resume = resume
function coroutine.yield(...) return raw_yield(pack(...)) end
function coroutine.create(f)
  if type(f) ~= "function" then error("bad argument #1 to 'create' (function expected)", 2) end
  return raw_create(function(...) return pack(f(...)) end)
end
local create = coroutine.create
function coroutine.wrap(f)
  local co = create(f)
  return function(...) return unwrap(resume(co, ...)) end
end

function string.gmatch(text, pattern)
  local position, length = 1, #text
  local function advance(following, ...)
    if following then
      position = following
      return ...
    end
    position = length + 2
  end
  return function()
    if position > length + 1 then return nil end
    return advance(gmatch_step(text, pattern, position))
  end
end
string.gfind = string.gmatch

function table.concat(t, separator, from, to)
  check_table(t, 1, "concat")
  return internal.concat(t, separator, from, to)
end

function table.insert(t, ...)
  check_table(t, 1, "insert")
  local count = select("#", ...)
  if count == 0 then error("wrong number of arguments", 2) end
  local length = #t
  if count == 1 then
    rawset(t, length + 1, (...))
    return
  end
  local position, value = ...
  position = integer(position, 2, "insert")
  if position >= 1 then
    for i = length, position, -1 do rawset(t, i + 1, rawget(t, i)) end
  end
  rawset(t, position, value)
end

-- A position before the first stands for the last.
function table.remove(t, ...)
  check_table(t, 1, "remove")
  local length = #t
  local position = length
  if select("#", ...) > 0 then position = integer((...), 2, "remove") end
  if length == 0 or position > length then return nil end
  if position < 1 then position = length end
  local value = rawget(t, position)
  for i = position, length - 1 do rawset(t, i, rawget(t, i + 1)) end
  rawset(t, length, nil)
  return value
end

function table.maxn(t)
  check_table(t, 1, "maxn")
  local most = 0
  for key in next, t do
    if type(key) == "number" and key > most then most = key end
  end
  return most
end

local function less(a, b) return a < b end

-- A merge sort: the number of comparisons is bounded whatever the order function says.
function table.sort(t, before)
  check_table(t, 1, "sort")
  before = before or less
  local length = #t
  local from, to, width = {}, {}, 1
  for i = 1, length do from[i] = rawget(t, i) end
  while width < length do
    for start = 1, length, 2 * width do
      local left, right = start, start + width
      local left_end, right_end = right, right + width
      if left_end > length + 1 then left_end = length + 1 end
      if right_end > length + 1 then right_end = length + 1 end
      for k = start, right_end - 1 do
        if left < left_end and (right >= right_end or not before(from[right], from[left])) then
          to[k] = from[left]
          left = left + 1
        else
          to[k] = from[right]
          right = right + 1
        end
      end
    end
    from, to, width = to, from, 2 * width
  end
  for i = 1, length do rawset(t, i, from[i]) end
end

math.huge = internal.largest
math.random = internal.random
function math.randomseed() end

local function missing(name)
  return function() error(name .. " is not available in a script filter of the embedded cluster", 2) end
end
for _, name in pairs({"dofile", "loadfile", "module", "require", "newproxy"}) do _G[name] = missing(name) end
string.dump = missing("string.dump")
io, debug, channel, package = {}, {}, {}, {path = "", cpath = "", loaded = {}, preload = {}}
for _, name in pairs({"open", "lines", "read", "write", "close", "input", "output", "popen", "tmpfile", "type"}) do
  io[name] = missing("io." .. name)
end
for _, name in pairs({"execute", "exit", "remove", "rename", "setlocale", "tmpname", "setenv"}) do
  os[name] = missing("os." .. name)
end
function debug.traceback(message) return message end

-- The last value that a script returns decides, and only the boolean true passes.
local function last(...)
  local count = select("#", ...)
  if count == 0 then return nil end
  return (select(count, ...))
end
function internal.value(script) return last(script()) end
return function(script) return last(script()) == true end
