import sys
reload(sys)
sys.setdefaultencoding('utf-8')
