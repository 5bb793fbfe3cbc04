import sys

print(sys.getdefaultencoding())
open('x', encoding='utf-8')
